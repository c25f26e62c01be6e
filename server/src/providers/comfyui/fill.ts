import { createHash } from 'node:crypto'
import { PLACE, type Workflow } from '../../catalog/workflow.ts'
import type { VideoCall } from '../dialect/spec.ts'

/**
 * The workflow with what a job asks for in its places. A place that is all of a text becomes a number where it is one; others
 * become part of their text. The client's text is never looked at for places.
 */
export function fillWorkflow(workflow: Workflow, call: VideoCall): Workflow {
  return filled(workflow, call) as Workflow
}

function filled(value: unknown, call: VideoCall): unknown {
  if (typeof value === 'string') return filledText(value, call)
  if (Array.isArray(value)) return value.map((each) => filled(each, call))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, filled(inner, call)]))
}

function filledText(text: string, call: VideoCall): string | number {
  const [place] = text.matchAll(PLACE)
  if (place?.[0] === text.trim()) return valueAt(place[1] ?? '', Number(place[2]), call)
  return text.replaceAll(PLACE, (_, name: string, number: string) => String(valueAt(name, Number(number), call)))
}

/** `number` is what stands in the place. The names were checked when the settings were read. */
function valueAt(name: string, number: number, { prompt, seconds, size, attemptId }: VideoCall): string | number {
  switch (name) {
    case 'prompt':
      return prompt
    case 'seconds':
      return seconds
    case 'frames':
      return seconds * number + 1
    case 'width':
      return size?.width ?? number
    case 'height':
      return size?.height ?? number
    default:
      return seedOf(attemptId)
  }
}

/** Another one for each attempt; 48 bits, which every sampler takes. */
function seedOf(attemptId: string): number {
  return createHash('sha256').update(attemptId).digest().readUIntBE(0, 6)
}
