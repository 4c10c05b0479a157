"""Is a reward vector worth training on with VPO? Statistics of evaluated groups, findings and advice.

A chain contains the answers of one completion. Training with VPO (arXiv 2605.22817) beats training on the
best mean reward of a chain only if components rank answers differently, some rewards are above zero, and the
chains of a prompt have different rewards. For weights w ~ Dirichlet(alpha), a constant component does not
change normalised advantages, and n copies of a component act as one component with parameter n alpha.
"""
