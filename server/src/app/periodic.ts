import type { Log } from '../lib/log.ts'
import type { PeriodicTask } from '../lib/periodicTask.ts'
import type { Clock } from '../lib/time.ts'

/**
 * Runs each task with its period, independent of the others: a slow task keeps no other waiting. A task never overlaps with
 * itself. A run that fails is logged and made again after the period. The result stops all; a run under way is told so, and
 * not waited for.
 */
export function runPeriodically(tasks: readonly PeriodicTask[], clock: Clock, log: Log): () => void {
  const cancels = new Map<PeriodicTask, () => void>()
  let isStopped = false
  const isStopping = () => isStopped
  const arm = (task: PeriodicTask) => {
    if (!isStopped)
      cancels.set(
        task,
        clock.after(task.everyMs, () => void runOnce(task)),
      )
  }
  const runOnce = async (task: PeriodicTask) => {
    try {
      await task.run(isStopping)
    } catch (error) {
      if (!isStopped) log.warn({ err: error, task: task.name }, 'periodic work failed; it is tried again')
    }
    arm(task)
  }
  tasks.forEach(arm)
  return () => {
    isStopped = true
    for (const cancel of cancels.values()) cancel()
  }
}
