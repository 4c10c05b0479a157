"""Is a reward vector worth training on with VPO? Statistics of judged groups, findings and advice.

VPO (arXiv 2605.22817) rewards a chain of answers by the expected best of them over random weightings of the
components. That is more informative than the best mean only if the components rank answers differently, if
some rewards are above zero, and if the chains of a prompt have different rewards. Each of these is measured
here by pure functions of `Group` records. All sampling is seeded, so the same groups give the same figures.

`sample_figures` measures groups, `advice` chooses training settings, `findings` explains both and gives a
verdict.

Two properties of the weights w ~ Dirichlet(alpha, ..., alpha) over D components are used throughout.
*Neutrality*: without one component, the others' weights, rescaled to sum 1, are Dirichlet again and do not
depend on it. So a component with one value in all answers adds the same to every set score and scales all
their differences alike: normalised advantages stay as they are, and there is no need to drop it.
*Aggregation*: the weights of n identical components add up to one weight of parameter n alpha. They count n
times, and that sum varies less around its mean: n copies of each component do what n alpha would do.
"""
