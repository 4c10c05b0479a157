"""Is a reward vector worth training on with VPO? Statistics of judged groups, findings and advice.

VPO (arXiv 2605.22817) gains over the best mean only if components rank answers differently, some rewards are
above zero, and the chains of a prompt have different rewards. Two properties of weights w ~ Dirichlet(alpha)
are used: a component that is constant over all answers does not change normalised advantages, and n copies of
a component act as one with parameter n alpha.
"""
