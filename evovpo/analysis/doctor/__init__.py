"""Diagnoses from sampled answers whether training with VPO on a problem's reward vector is worthwhile.

VPO is Vector Policy Optimization (arXiv 2605.22817). A chain contains the answers of one completion. VPO is
no better than training on the highest mean reward in a chain if all components rank the answers alike, if all
rewards are zero, or if the chains of a prompt have equal rewards.
"""
