"""Is a reward vector worth training on with VPO? Statistics of evaluated groups, findings and advice.

A chain contains the answers of one completion. VPO (arXiv 2605.22817) gains over the best mean reward only if
components rank answers differently, some rewards are above zero, and the chains of a prompt have different
rewards. For weights w ~ Dirichlet(alpha), a component that is constant over all answers does not change
normalised advantages, and n copies of a component act as one component with parameter n alpha.
"""
