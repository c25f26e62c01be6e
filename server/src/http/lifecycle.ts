/** The requests that are open in this process, and whether it takes more. */
export interface Lifecycle {
  /** False once the process is told to stop, and before it is ready. */
  isAdmitting(): boolean
  readonly openRequests: number
  /** Counts a request as open. Call the result when it has ended; repeats do nothing. */
  enter(): () => void
  /** Takes no more requests. */
  close(): void
  /** Resolves when none is open any more. */
  drained(): Promise<void>
}

export function createLifecycle(): Lifecycle {
  let admitting = true
  let open = 0
  const waiting: (() => void)[] = []
  return {
    isAdmitting: () => admitting,
    get openRequests() {
      return open
    },
    enter() {
      open += 1
      let left = false
      return () => {
        if (left) return
        left = true
        open -= 1
        if (open === 0) for (const resolve of waiting.splice(0)) resolve()
      }
    },
    close() {
      admitting = false
    },
    drained: () => (open === 0 ? Promise.resolve() : new Promise((resolve) => waiting.push(resolve))),
  }
}
