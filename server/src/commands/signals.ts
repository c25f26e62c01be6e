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

/**
 * Hears of each SIGHUP from now on, so that none ends the process before it serves. One that came before `onReload` of the result was given
 * its callback makes that be called at once.
 */
export function holdReloads(signals: Signals): Signals {
  let wasAsked = false
  let reload = () => {
    wasAsked = true
  }
  signals.onReload(() => reload())
  return {
    ...signals,
    onReload(callback) {
      reload = callback
      if (wasAsked) callback()
    },
  }
}

/** Returns what `work` gives; null where `stop` comes first. Then the work goes on, and nobody hears of its failure. */
export async function unlessStopped<T>(stop: Promise<unknown>, work: Promise<T>): Promise<T | null> {
  work.catch(() => {})
  return await Promise.race([work, stop.then(() => null)])
}
