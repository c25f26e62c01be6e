/** A gateway that rents instances, whose machines an operator's command makes. */

import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../src/infra/clock.ts'
import { type Clock, sleep } from '../../src/lib/time.ts'
import { type MachineUrls, writeMachineCommand } from '../commandMachines.ts'
import { type AskedGateway, openAskedGateway, type Question } from './ask.ts'
import { SETTINGS } from './catalog.ts'
import type { Answer } from './description.ts'

export interface Rental {
  readonly gateway: AskedGateway
  /** Asks for an instance; {@link RENTED}, and a new Idempotency-Key, unless given. */
  create(key: Question['key'], body?: object, idempotencyKey?: string): Promise<Answer>
  /** Polls until an operation is over. */
  ended(key: Question['key'], operationId: string): Promise<Answer>
  /** The names of the machines that there are. */
  machines(): Promise<string[]>
  /** Where apps and terminals answer; there is a port where the settings name a host. */
  readonly appPort: number
  /** Says whether no further machine is made. */
  refuse(isRefused: boolean): Promise<void>
  close(): Promise<void>
}

export interface RentalOptions {
  readonly clock?: Clock
  /** Further settings of the section `instances`, one a line. */
  readonly instances?: readonly string[]
  /** Further settings beside it. */
  readonly more?: string
  readonly urls?: MachineUrls
  /** Opens the gateway with these settings; {@link openAskedGateway} unless given. */
  readonly open?: (options: { readonly settings: string; readonly clock?: Clock }) => Promise<AskedGateway>
}

/** A request that is accepted: two GPUs at 120 cents an hour. */
export const RENTED = {
  app: 'server',
  gpu_type: 'a100',
  gpu_count: 2,
  disk_gb: 10,
  model: 'small',
  expected_price_per_hour_cents: 240,
}

/** Reads the answer of a creation or a deletion that was accepted. */
export function operationOf(answer: Answer): { readonly operation_id: string; readonly resource_id: string } {
  return answer.json as { operation_id: string; resource_id: string }
}

/** Opens the gateway. Call `close` in `afterAll`. */
export async function openRental(options: RentalOptions = {}): Promise<Rental> {
  const { clock, instances = [], more = '', urls, open = openAskedGateway } = options
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-cloud-'))
  const path = await writeMachineCommand(folder, urls)
  const settings = `${SETTINGS}${more}${sectionOf(path, instances)}`
  const gateway = await open({ settings, ...(clock && { clock }) })
  const opened = gateway.logs.map((line) => JSON.parse(line)).find(({ msg }) => msg === 'apps of instances answer')
  return {
    gateway,
    appPort: opened?.port ?? 0,
    create: (key, body = RENTED, idempotencyKey = crypto.randomUUID()) =>
      gateway.ask({ path: '/instances', key, body, headers: { 'Idempotency-Key': idempotencyKey } }),
    async ended(key, operationId) {
      for (;;) {
        const answer = await gateway.ask({ path: `/operations/${operationId}`, key })
        if ((answer.json as { completed_at: string | null }).completed_at !== null) return answer
        await sleep(systemClock, 20)
      }
    },
    machines: async () => (await readdir(folder)).filter((name) => name.endsWith('.machine')),
    refuse: (isRefused) => (isRefused ? writeFile(join(folder, 'refuse'), '') : rm(join(folder, 'refuse'))),
    async close() {
      await gateway.close()
      await rm(folder, { recursive: true })
    },
  }
}

function sectionOf(path: string, instances: readonly string[]): string {
  return `
instances:
  driver: { kind: command, path: ${path} }
${instances.map((line) => `  ${line}\n`).join('')}  gpu_types:
    - { name: a100, vram_gb: 80, count: 4, price_per_hour_cents: 120, disk_gb_max: 100 }
    - { name: t4, vram_gb: 16, price_per_hour_cents: 60, disk_gb_max: 100, disk_gb_total: 150 }
    - { name: h200, vram_gb: 141, price_per_hour_cents: 2100, disk_gb_max: 100 }
  apps:
    - name: server
      image: 'server:1'
      port: 8080
      terminal: true
      vram_gb_min: 40
      models: [{ name: small, vram_gb: 20 }, { name: huge, vram_gb: 500 }]
    - { name: tool, image: 'tool:1', port: 8080 }
`
}
