"""Is a reward vector worth training on with VPO? Figures from judged groups, and what follows from them.

VPO (arXiv 2605.22817) pays a chain of answers for the expected best of them over random weightings of the
components. That teaches more than the best mean does only if the components disagree about answers, if
answers earn something at all, and if the chains of a prompt differ in what they earn. Each of these is a
figure here. Pure functions of `Group` records: no I/O; all sampling is seeded, so that the same groups give
the same figures.

`figures` takes in the groups and measures them; `advice` chooses settings to train with; `findings` says all
of it in words, with a verdict.

Two properties of the weights w ~ Dirichlet(alpha, ..., alpha) over D components are used throughout.
*Neutrality*: without one component, the others' weights, rescaled to sum 1, are Dirichlet again and do not
depend on it. So a component with one value in all answers adds the same to every set score and scales all
their differences alike: normalised advantages stay as they are, and there is no need to drop it.
*Aggregation*: the weights of n identical components add up to one weight of parameter n alpha. They count n
times, and that sum varies less around its mean: n copies of each component do what n alpha would do.
"""
