"""Most work remaining: the job with the longest way to go."""


def priority(duration, work_left, operations_left, work_done):
    """Of the operations that can start next, the one with the highest value does."""
    return work_left


def schedule(jobs):
    done = [0] * len(jobs)
    job_free = [0] * len(jobs)
    machine_free = {}
    work_left = [sum(duration for _, duration in job) for job in jobs]
    work = list(work_left)
    order = []
    while True:
        starts = {
            j: max(job_free[j], machine_free.get(jobs[j][done[j]][0], 0))
            for j in range(len(jobs))
            if done[j] < len(jobs[j])
        }
        if not starts:
            return order
        earliest = min(starts.values())
        best = max(
            (j for j in starts if starts[j] == earliest),
            key=lambda j: priority(
                jobs[j][done[j]][1], work_left[j], len(jobs[j]) - done[j], work[j] - work_left[j]
            ),
        )
        machine, duration = jobs[best][done[best]]
        job_free[best] = machine_free[machine] = earliest + duration
        work_left[best] -= duration
        done[best] += 1
        order.append(best)
