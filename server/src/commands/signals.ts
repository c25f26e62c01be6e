/** Signals as `main.ts` hears them. */
export interface Signals {
  /** Called for each SIGTERM or SIGINT. */
  onStop(callback: () => void): void
  /** Called for each SIGHUP. */
  onReload(callback: () => void): void
  /** Called when the process that started this one is gone; asked for only where there is one. */
  onOrphaned(callback: () => void): void
}

/** Collects what asks the server to stop. `first` gives the reason of a failure, or null for a signal. */
export function stopRequests(signals: Signals) {
  let stop: (reason: string | null) => void = () => {}
  let stopNow = () => {}
  const first = new Promise<string | null>((resolve) => {
    stop = resolve
  })
  const second = new Promise<void>((resolve) => {
    stopNow = resolve
  })
  let asked = 0
  signals.onStop(() => {
    asked += 1
    if (asked === 1) stop(null)
    else stopNow()
  })
  const now = () => {
    stop(null)
    stopNow()
  }
  return { first, second, now, fail: (reason: string) => stop(reason) }
}
