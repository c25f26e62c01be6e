import { resolve } from 'node:path'
import { z } from 'zod'
import type { Path, Report } from './document.ts'
import { loadRemote, RemoteShape, type SettingsContext } from './loadRemote.ts'
import type { ComfyuiProviderSettings } from './provider.ts'
import { closed, readShape } from './shape.ts'
import { readWorkflow, type Workflow } from './workflow.ts'

const WORKFLOWS_MOST = 100

/** A provider of the dialect `comfyui` as it stands in the file: one over HTTP, and its workflows. */
export const ComfyuiShape = closed(
  {
    ...RemoteShape.shape,
    dialect: z.literal('comfyui'),
    workflows: z.record(z.string(), z.string().min(1)),
  },
  { workflow: "write 'workflows:' with one 'NAME: FILE' for each model" },
)

/** Reads one, and its workflows from their files. Null where something was reported. */
export function loadComfyui(
  name: string,
  value: unknown,
  path: Path,
  context: SettingsContext,
  report: Report,
): ComfyuiProviderSettings | null {
  const read = readShape(ComfyuiShape, value, path, report)
  if (read === null) return null
  const { workflows: files, ...remote } = read
  const server = loadRemote(name, remote, path, context, report)
  const workflows = new Map<string, Workflow>()
  let sound = server !== null
  for (const [model, file] of Object.entries(files).slice(0, WORKFLOWS_MOST)) {
    const text = context.readText?.(resolve(context.directory, file)) ?? null
    const found =
      text === null
        ? {
            fault: 'there is no such file of at most 1 MiB: relative paths start from the folder of this settings file',
          }
        : readWorkflow(text)
    if ('workflow' in found) workflows.set(model, found.workflow)
    else {
      report([...path, 'workflows', model], found.fault)
      sound = false
    }
  }
  if (Object.keys(files).length === 0 || Object.keys(files).length > WORKFLOWS_MOST) {
    report([...path, 'workflows'], `must have 1 to ${WORKFLOWS_MOST} entries, such as 'wan: workflows/wan.json'`)
    sound = false
  }
  return sound && server !== null ? { ...server, dialect: 'comfyui', workflows: Object.fromEntries(workflows) } : null
}
