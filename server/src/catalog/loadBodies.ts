import type { Report } from './document.ts'
import { DEFAULT_FIXED_SETTINGS, type FixedSettings } from './settings.ts'

interface BodiesInput {
  readonly body_limit_bytes?: number | undefined
  readonly body_memory_bytes?: number | undefined
  readonly body_deadline_seconds?: number | undefined
  readonly max_messages?: number | undefined
  readonly max_parts?: number | undefined
}

type BodySettings = Pick<
  FixedSettings,
  'bodyLimitBytes' | 'bodyMemoryBytes' | 'bodyDeadlineMs' | 'messagesMost' | 'partsMost'
>

/** A key may take half of the memory: two bodies of the largest size, of which one still grows. */
const LARGEST_BODIES = 4

/** Reads the bounds of request bodies. Memory that no body of the largest size fits into is reported. */
export function loadBodies(read: BodiesInput, report: Report): BodySettings {
  const defaults = DEFAULT_FIXED_SETTINGS
  const bodyLimitBytes = read.body_limit_bytes ?? defaults.bodyLimitBytes
  const least = LARGEST_BODIES * bodyLimitBytes
  if (read.body_memory_bytes !== undefined && read.body_memory_bytes < least) {
    report(['body_memory_bytes'], `must be at least ${LARGEST_BODIES} times body_limit_bytes, ${least}`)
  }
  return {
    bodyLimitBytes,
    // A larger limit alone brings the memory that it needs.
    bodyMemoryBytes: read.body_memory_bytes ?? Math.max(defaults.bodyMemoryBytes, least),
    bodyDeadlineMs:
      read.body_deadline_seconds === undefined
        ? defaults.bodyDeadlineMs
        : Math.round(read.body_deadline_seconds * 1_000),
    messagesMost: read.max_messages ?? defaults.messagesMost,
    partsMost: read.max_parts ?? defaults.partsMost,
  }
}
