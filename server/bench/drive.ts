/** Runs the driver process against a target and weighs what the target's processes used meanwhile. */
import { join } from 'node:path'
import type { Aim, Plan } from './plan.ts'
import { cpuSeconds, type Processes } from './processes.ts'
import { chatBody, type Target } from './target.ts'

const DRIVER = join(import.meta.dir, 'load.ts')
/** Beyond the plan's own duration, a driver that has not ended by then is killed. */
const DRIVER_GRACE_SECONDS = 60

/** Processor time per 1,000 answers, in seconds. */
export interface Cost {
  readonly gatewayCpu: number
  readonly databaseCpu: number
}

export function aimAt(target: Target, mockModel: string, stream: boolean): Aim {
  const { port, path, headers, authorizations } = target
  return { port, path, headers, authorizations, body: chatBody(target, mockModel, stream) }
}

/** Carries out `plan` in a driver process. `onLine` sees its progress lines. Throws when the driver fails. */
export async function drive<Outcome extends { allCalls: number }>(
  processes: Processes,
  target: Target,
  plan: Plan,
  onLine?: (line: string) => void,
): Promise<Outcome & { cost: Cost }> {
  const gatewayBefore = cpuSeconds(target.gatewayPids())
  const databaseBefore = cpuSeconds(target.databasePids())
  const command = [process.execPath, DRIVER, JSON.stringify(plan)]
  const output = await processes.run(command, secondsOf(plan) + DRIVER_GRACE_SECONDS, onLine ? { onLine } : {})
  const outcome = JSON.parse(output.trimEnd().split('\n').at(-1) ?? '') as Outcome
  const thousands = Math.max(1, outcome.allCalls) / 1000
  const gatewayCpu = (cpuSeconds(target.gatewayPids()) - gatewayBefore) / thousands
  const databaseCpu = (cpuSeconds(target.databasePids()) - databaseBefore) / thousands
  return { ...outcome, cost: { gatewayCpu, databaseCpu } }
}

function secondsOf(plan: Plan): number {
  if (plan.mode === 'streams') return plan.deadlineSeconds
  return plan.warmupSeconds + plan.seconds
}
