/** Work on large bodies, in steps: one step at a time for the whole process, and everything else gets its turn in between. */

interface Step {
  readonly work: () => unknown
  readonly resolve: (result: unknown) => void
  readonly reject: (error: unknown) => void
}

export interface Turns {
  /** Does `work` when those that came before are done, and what follows its result at once after it. */
  run<Value>(work: () => Value): Promise<Value>
}

/** As many steps wait as there are requests with large bodies, each with one. */
export function createTurns(): Turns {
  const line: Step[] = []
  let isDue = false
  // Immediates that stand together run together: each asks for the next.
  const schedule = () => {
    if (isDue || line.length === 0) return
    isDue = true
    setImmediate(next)
  }
  const next = () => {
    isDue = false
    const step = line.shift()
    try {
      step?.resolve(step.work())
    } catch (error) {
      step?.reject(error)
    }
    schedule()
  }
  return {
    run: (work) =>
      new Promise((resolve, reject) => {
        line.push({ work, resolve: resolve as Step['resolve'], reject })
        schedule()
      }),
  }
}
