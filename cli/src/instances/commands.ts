import { MICROCENTS_PER_CENT } from '../../../server/src/lib/money.ts'
import { facts, shortInstant, table } from '../../../server/src/lib/table.ts'
import { dollars } from '../account/balance.ts'
import { callApi } from '../api.ts'
import { askOnce, chosenKey, keyOption, sameCommand } from '../askOnce.ts'
import type { CliCommand, CommandLine } from '../command.ts'
import { CliFailure } from '../failure.ts'
import { idempotencyKey } from '../idempotencyKey.ts'
import { sayNotice } from '../notice.ts'
import type { System } from '../system.ts'
import { readCents, wholeNumberOf } from '../values.ts'
import { INSTANCES, instancePath, type ShownInstance, type ShownOfferings, type ShownOperation } from './instance.ts'
import { waitForOperation } from './wait.ts'

const GPUS_MAX = 1_000
const DISK_GB_MAX = 1_000_000
/** Of a page of the server's. */
const INSTANCES_MAX = 200

const ID = { name: 'ID', summary: 'the instance\'s id, as "tollgate instances list" shows it' }
const EXAMPLE_ID = '01920e4c-7c00-7c3a-9d5e-0a6f4f1b2c3d'

/** `tollgate instances offerings` */
export const listOfferingsCommand: CliCommand = {
  words: ['instances', 'offerings'],
  summary: 'List the GPU types and apps that can be rented',
  options: [],
  examples: ['tollgate instances offerings'],
  run: async (args, system) => {
    const offered = await readOfferings(args, system)
    const types = offered.gpu_types.map((gpu) => [
      gpu.name,
      `${gpu.vram_gb} GB`,
      String(gpu.count),
      dollars(gpu.price_per_hour_cents),
      `${gpu.disk_gb_max} GB`,
    ])
    const apps = offered.apps.map(({ name, vram_gb_min: least, models }) => [
      name,
      `${least} GB`,
      models.map((model) => model.name).join(', ') || '-',
    ])
    const typeTable = table(
      ['GPU TYPE', 'MEMORY', 'GPUS', 'AN HOUR, EACH', 'DISK'],
      types,
      'There are no GPU types.',
      system.stdoutColumns,
    )
    const appTable = table(['APP', 'NEEDS', 'MODELS'], apps, 'There are no apps.', system.stdoutColumns)
    return { json: offered, text: `${typeTable}\n${appTable}` }
  },
}

/** `tollgate instances create APP --gpu-type …` */
export const createInstanceCommand: CliCommand = {
  words: ['instances', 'create'],
  summary: 'Rent an instance, and wait until it runs if asked',
  argument: { name: 'APP', summary: 'an app, as "tollgate instances offerings" lists them' },
  options: [
    { name: 'gpu-type', value: 'TYPE', summary: 'a GPU type of the same list', isRequired: true },
    { name: 'gpus', value: 'N', summary: 'how many GPUs; 1 when left out' },
    { name: 'disk', value: 'GB', summary: 'how much disk; none when left out' },
    { name: 'model', value: 'NAME', summary: 'a model of the app' },
    { name: 'name', value: 'NAME', summary: 'its name in lists' },
    {
      name: 'price',
      value: 'USD',
      summary: 'the hourly price that you accept, such as 2.50; left out: the one of the list',
    },
    { name: 'wait', value: null, summary: 'wait until it runs; Ctrl-C stops the waiting, not the instance' },
    keyOption('and the same --price finds the same instance for 24 hours and rents no second one'),
  ],
  examples: ['tollgate instances create llama-server --gpu-type a100 --model small --wait'],
  run: async (args, system) => {
    const gpus = wholeNumberOf(args, 'gpus', GPUS_MAX)
    const disk = wholeNumberOf(args, 'disk', DISK_GB_MAX)
    const [model, name] = [args.text('model'), args.text('name')]
    const gpuType = args.required('gpu-type')
    const key = chosenKey(args, system)
    const priceCents = await acceptedPrice(args, system, gpuType, gpus ?? 1)
    const again = sameCommand(createInstanceCommand, args, key, { price: (priceCents / 100).toFixed(2) })
    const { body } = await askOnce(args, system, {
      method: 'POST',
      path: INSTANCES,
      body: {
        app: args.argument,
        gpu_type: gpuType,
        expected_price_per_hour_cents: priceCents,
        ...(gpus !== undefined && { gpu_count: gpus }),
        ...(disk !== undefined && { disk_gb: disk }),
        ...(model !== undefined && { model }),
        ...(name !== undefined && { name }),
      },
      idempotencyKey: key,
      isShort: true,
      left: 'left the instance, which the server may have begun to make',
      advice: `if the instance was rented, ${again} finds it within 24 hours, and rents no second one`,
    })
    const begun = body as ShownOperation
    const id = begun.resource_id
    for (const warning of begun.warnings ?? []) sayNotice(system, { code: 'warning', message: `tollgate: ${warning}` })
    if (!args.flag('wait')) {
      const next = `"tollgate instances get ${id}" shows whether it runs`
      return { json: begun, text: `Instance ${id} is being made, for ${dollars(priceCents)} an hour: ${next}.\n` }
    }
    const made = await waitForOperation(args, system, begun)
    const runs = `Instance ${id} runs, for ${dollars(priceCents)} an hour`
    return { json: made, text: `${runs}: ${nextStep(made, id)}.\n` }
  },
}

/** `tollgate instances list` */
export const listInstancesCommand: CliCommand = {
  words: ['instances', 'list'],
  summary: "List the organization's instances, newest first",
  options: [
    { name: 'limit', value: 'N', summary: `how many, up to ${INSTANCES_MAX}; 50 when left out` },
    { name: 'cursor', value: 'CURSOR', summary: 'the `next_cursor` of the page before' },
  ],
  examples: ['tollgate instances list', 'tollgate instances list --json --limit 200'],
  run: async (args, system) => {
    const query = new URLSearchParams({ limit: String(wholeNumberOf(args, 'limit', INSTANCES_MAX) ?? 50) })
    const cursor = args.text('cursor')
    if (cursor !== undefined) query.set('cursor', cursor)
    const page = (await callApi(args, system, { method: 'GET', path: `${INSTANCES}?${query}` })) as {
      readonly data: readonly ShownInstance[]
      readonly next_cursor: string | null
    }
    const rows = page.data.map((each) => [
      each.id,
      each.name,
      stateOf(each),
      `${each.gpu_count} ${each.gpu_type}`,
      dollars(each.price_per_hour_cents),
    ])
    const none = 'There are no instances: rent one with "tollgate instances create APP --gpu-type TYPE".'
    const more = page.next_cursor === null ? '' : `There are more: --cursor ${page.next_cursor} shows them.\n`
    return {
      json: page,
      text: table(['ID', 'NAME', 'STATE', 'GPUS', 'AN HOUR'], rows, none, system.stdoutColumns) + more,
    }
  },
}

/** `tollgate instances get ID` */
export const showInstanceCommand: CliCommand = {
  words: ['instances', 'get'],
  summary: 'Show the state of an instance',
  argument: ID,
  options: [],
  examples: [`tollgate instances get ${EXAMPLE_ID} --json`],
  run: async (args, system) => {
    const found = (await callApi(args, system, {
      method: 'GET',
      path: instancePath(args.argument),
    })) as ShownInstance
    const { app, model, created_at: createdAt, ended_at: endedAt, app_url: url, terminal_url: terminal } = found
    const rows: [string, string][] = [
      ['Name', found.name],
      ['State', stateOf(found)],
      ['App', model === null ? app : `${app}, ${model}`],
      ['GPUs', `${found.gpu_count} ${found.gpu_type}`],
      ['Price', `${dollars(found.price_per_hour_cents)} an hour`],
      ['Created', shortInstant(createdAt)],
    ]
    if (endedAt !== null) rows.push(['Ended', shortInstant(endedAt)])
    if (url !== null) rows.push(['Answers at', url])
    if (terminal !== null) rows.push(['Terminal at', terminal])
    return { json: found, text: facts(rows) }
  },
}

/** `tollgate instances delete ID` */
export const deleteInstanceCommand: CliCommand = {
  words: ['instances', 'delete'],
  summary: 'Delete an instance; it costs nothing from then on',
  argument: ID,
  options: [{ name: 'wait', value: null, summary: 'wait until nothing of it is left' }],
  examples: [`tollgate instances delete ${EXAMPLE_ID}`],
  run: async (args, system) => {
    const begun = (await callApi(args, system, {
      method: 'DELETE',
      path: instancePath(args.argument),
      headers: { 'Idempotency-Key': idempotencyKey(system) },
    })) as ShownOperation
    if (!args.flag('wait')) {
      return { json: begun, text: `Instance ${args.argument} is being deleted, and costs nothing from now on.\n` }
    }
    return { json: await waitForOperation(args, system, begun), text: `Deleted the instance ${args.argument}.\n` }
  },
}

interface AppPassword {
  readonly app_url: string | null
  readonly terminal_url: string | null
  readonly user: string
  readonly password: string
}

/** `tollgate instances open ID` */
export const openInstanceCommand: CliCommand = {
  words: ['instances', 'open'],
  summary: 'Make a new password for the app of an instance and show it, only once; the one before ends',
  argument: ID,
  options: [],
  examples: [`tollgate instances open ${EXAMPLE_ID}`],
  run: async (args, system) => {
    const path = `${instancePath(args.argument)}/app-password`
    const make = () => callApi(args, system, { method: 'POST', path })
    const made = (await make()) as AppPassword
    const rows: [string, string][] = [
      ['App', made.app_url ?? 'does not answer yet'],
      ...(made.terminal_url === null ? [] : ([['Terminal', made.terminal_url]] satisfies [string, string][])),
      ['User', made.user],
      ['Password', made.password],
    ]
    return {
      json: made,
      text: `Keep the password now, it can't be shown again:\n\n${facts(rows)}`,
      undo: {
        run: async () => void (await make()),
        done: 'another password took its place, which nobody has seen',
        advice: `nobody has seen it: "tollgate instances open ${args.argument}" makes another`,
      },
    }
  },
}

/** Returns how a person reaches the app of an instance that runs. */
function nextStep({ result }: ShownOperation, id: string): string {
  if (result?.app_basic_auth_user != null) return `"tollgate instances open ${id}" makes a password for it`
  const url = result?.app_url ?? null
  return url === null ? `"tollgate instances get ${id}" shows it` : `it answers at ${url}`
}

function stateOf({ state, reason }: ShownInstance): string {
  return reason === null ? state : `${state} (${reason})`
}

async function readOfferings(args: CommandLine, system: System): Promise<ShownOfferings> {
  return (await callApi(args, system, { method: 'GET', path: `${INSTANCES}/offerings` })) as ShownOfferings
}

/** The hourly price that the person accepts: the one that was typed, or that of the list now. */
async function acceptedPrice(args: CommandLine, system: System, gpuType: string, gpus: number): Promise<number> {
  const typed = args.text('price')
  if (typed !== undefined) return readCents(typed, '--price')
  const { gpu_types: types } = await readOfferings(args, system)
  const found = types.find(({ name }) => name === gpuType)
  if (found !== undefined)
    return Math.floor((found.price_per_hour_microcents * gpus) / Number(MICROCENTS_PER_CENT) + 0.5)
  throw new CliFailure(`there is no GPU type ${gpuType}: "tollgate instances offerings" lists them`)
}
