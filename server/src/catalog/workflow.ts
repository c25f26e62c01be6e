/** Workflows of ComfyUI, in its API's form: nodes by their numbers. Places in them stand for what a job asks for. */

/**
 * A place: `{{prompt}}`, `{{seconds}}`, `{{seed}}`; `{{frames:16}}`, the frames of its length at so many a second, and one more;
 * `{{width:832}}` and `{{height:480}}`, with the sides where a job names no size.
 */
export const PLACE = /\{\{\s*([a-z]+)(?::(\d{1,5}))?\s*\}\}/g

/** The names of places, and whether a number belongs to each. */
const PLACES: Readonly<Record<string, boolean>> = {
  prompt: false,
  seconds: false,
  seed: false,
  frames: true,
  width: true,
  height: true,
}

export type Workflow = Readonly<Record<string, unknown>>

/** Reads a workflow, or says what is wrong with it and what to do. */
export function readWorkflow(text: string): { readonly workflow: Workflow } | { readonly fault: string } {
  let workflow: unknown
  try {
    workflow = JSON.parse(text)
  } catch {
    return { fault: 'is not JSON: export the workflow from ComfyUI again' }
  }
  const nodes = isObject(workflow) ? Object.values(workflow) : []
  if (nodes.length === 0 || !nodes.every((node) => isObject(node) && typeof node['class_type'] === 'string')) {
    return { fault: "is not a workflow in ComfyUI's API format: export it with 'Export (API)', not 'Save'" }
  }
  const places = [...text.matchAll(PLACE)]
  for (const [shown, name = '', number] of places) {
    const takesNumber = Object.hasOwn(PLACES, name) ? PLACES[name] : undefined
    if (takesNumber === undefined) {
      return { fault: `has the unknown placeholder ${shown}: use ${Object.keys(PLACES).join(', ')}` }
    }
    if (takesNumber && !(Number(number) > 0)) return { fault: `has ${shown} without a number: ${EXAMPLES}` }
    if (!takesNumber && number !== undefined) return { fault: `has ${shown} with a number: remove the number` }
  }
  if (!places.some(([, name]) => name === 'prompt'))
    return { fault: 'has no {{prompt}}: put it where the prompt belongs' }
  return { workflow: workflow as Workflow }
}

const EXAMPLES =
  'write {{frames:16}} for 16 frames a second, {{width:832}} and {{height:480}} for jobs that name no size'

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
