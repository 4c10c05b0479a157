"""Is a reward vector worth training on with VPO? Statistics of judged groups, findings and advice.

VPO (arXiv 2605.22817) gains over the best mean only if the components rank answers differently, if some
rewards are above zero, and if the chains of a prompt have different rewards. Weights w ~ Dirichlet(alpha)
have two properties used throughout: a component with one value in all answers leaves normalised advantages as
they are, and n copies of a component act as one with parameter n alpha.
"""
