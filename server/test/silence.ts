import type { Log } from '../src/lib/log.ts'

const ignore = () => {}

/** A log that goes nowhere. */
export const SILENCE: Log = { debug: ignore, info: ignore, warn: ignore, error: ignore }
