import { SECOND_MS, type Timers } from './time.ts'

const BAR_CHARACTERS = 30
/** A terminal is drawn on no more often. */
const DRAW_INTERVAL_MS = SECOND_MS / 10

/** Where a bar is drawn: a terminal, and the clock that says when again. */
export interface BarTerminal {
  readonly clock: Timers
  readonly stderr: (text: string) => void
}

export interface Bar {
  /** `share` from 0 to 1, and what to say beside it. */
  draw(share: number, words: string): void
  /** Wipes it away. */
  end(): void
}

/** A bar on the last line of the terminal. */
export function createBar({ clock, stderr }: BarTerminal): Bar {
  let drawnAtMs = Number.NEGATIVE_INFINITY
  return {
    draw: (share, words) => {
      if (clock.monotonicMs() - drawnAtMs < DRAW_INTERVAL_MS) return
      drawnAtMs = clock.monotonicMs()
      stderr(`\r${barLine(share, words)}\u001b[K`)
    },
    end: () => stderr('\r\u001b[K'),
  }
}

/** Such as `[#####.....]  50%  1.2 of 2.4 GB`. */
export function barLine(share: number, words: string): string {
  const filled = Math.floor(Math.min(share, 1) * BAR_CHARACTERS)
  const percent = String(Math.floor(Math.min(share, 1) * 100)).padStart(3)
  return `[${'#'.repeat(filled)}${'.'.repeat(BAR_CHARACTERS - filled)}] ${percent}%  ${words}`
}
