import { z } from 'zod'
import type { CommandDriverSettings } from '../../catalog/offering.ts'
import { runProgram } from '../../infra/runProgram.ts'
import type { Clock } from '../../lib/time.ts'
import { CreateRefused, type DriverMachine, type InstanceDriver } from './driver.ts'

/** The exit status of a `create` that will never succeed, such as for a GPU type that the cloud does not have. */
const REFUSED_EXIT = 3

/** Enough for the list of ten thousand machines. */
const OUTPUT_BYTES_MOST = 8 * 1024 * 1024

const MACHINES_MOST = 20_000

const url = z
  .string()
  .max(2_048)
  .regex(/^https?:\/\/[^\s@]+$/)
  .nullish()

const MachineShape = z.object({
  name: z.string().max(200),
  state: z.enum(['creating', 'running', 'ended']),
  app_url: url,
  terminal_url: url,
})

const StatusAnswer = z.object({ machine: MachineShape.nullable() })
const ListAnswer = z.object({ machines: z.array(MachineShape).max(MACHINES_MOST) })

/**
 * Returns the driver that asks an operator's executable: its only argument is the question (`create`, `status`, `delete` or
 * `list`), JSON on its standard input says about what, and it answers in JSON. An answer that can't be read counts as no answer.
 */
export function commandDriver({ path, timeoutMs }: CommandDriverSettings, clock: Clock): InstanceDriver {
  const ask = async <T>(question: string, input: object, answer: z.ZodType<T>, signal: AbortSignal): Promise<T> => {
    const deadline = new AbortController()
    const cancel = clock.after(timeoutMs, () => deadline.abort())
    try {
      const end = await runProgram({
        path,
        args: [question],
        input: JSON.stringify(input),
        signal: AbortSignal.any([signal, deadline.signal]),
        outputBytesMost: OUTPUT_BYTES_MOST,
        clock,
      })
      if (end.exitCode === REFUSED_EXIT && question === 'create') throw new CreateRefused()
      if (end.exitCode !== 0)
        throw new Error(`the driver's command ended with the status ${end.exitCode ?? 'of a signal'}`)
      const parsed = answer.safeParse(jsonOf(end.output))
      if (!parsed.success) throw new Error("the driver's command gave an answer that can't be read")
      return parsed.data
    } finally {
      cancel()
    }
  }
  return {
    kind: 'command',
    async create(name, spec, signal) {
      const { gpuType: gpu_type, gpuCount: gpu_count, diskGb: disk_gb, organizationId: _, ...rest } = spec
      const asked = { name, spec: { ...rest, gpu_type, gpu_count, disk_gb } }
      const { machine } = await ask('create', asked, StatusAnswer, signal)
      if (machine === null || machine.name !== name)
        throw new Error("the driver's command made another machine, or none")
      return toMachine(machine)
    },
    async status(name, signal) {
      const { machine } = await ask('status', { name }, StatusAnswer, signal)
      if (machine !== null && machine.name !== name) throw new Error("the driver's command told of another machine")
      return machine === null ? null : toMachine(machine)
    },
    async delete(name, signal) {
      await ask('delete', { name }, z.unknown(), signal)
    },
    async list(signal) {
      return (await ask('list', {}, ListAnswer, signal)).machines.map(toMachine)
    },
  }
}

function toMachine(given: z.infer<typeof MachineShape>): DriverMachine {
  return {
    name: given.name,
    state: given.state,
    appUrl: given.app_url ?? null,
    terminalUrl: given.terminal_url ?? null,
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
