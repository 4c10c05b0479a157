"""Diagnoses from sampled answers whether training with VPO on a problem's reward vector is worthwhile.

VPO is Vector Policy Optimization (arXiv 2605.22817). A chain contains the answers of one completion. VPO can
beat training on the highest mean reward among a chain's answers only if components rank answers differently,
some rewards are above zero, and the chains of a prompt have different rewards. For weights w ~
Dirichlet(alpha), n copies of a component act as one component with parameter n alpha.
"""
