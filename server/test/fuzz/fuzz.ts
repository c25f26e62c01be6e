/**
 * Schemathesis on a real gateway: requests generated from the gateway's own `/openapi.json`, those that fit it and those
 * that don't, every answer held to it by all of schemathesis' checks.
 */

import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Document } from '../acceptance/description.ts'
import { makeCustomer } from '../customer.ts'
import { openDirectory } from '../dataDirectory.ts'
import { installPython, run } from '../python.ts'
import { startServer } from '../server.ts'
import { clearBudgets, clearMade } from './clearing.ts'
import { makeDeposits, openFuzzedChains } from './deposits.ts'
import { makeEndpoints } from './endpoints.ts'
import { IMAGES_MOST, MODELS, SECONDS_MOST, SETTINGS, SIZES } from './settings.ts'
import { fillUsage } from './usage.ts'
import { makeVideos } from './videos.ts'

const VERSION = '4.32.5'
/** Beyond any bill: a cent a request and a dollar or two. */
const CREDIT_CENTS = 2_000_000_000
/** A round of 200 cases an operation takes half a minute alone on the machine. */
const ROUND_LIMIT_MS = 600_000

/** The number of requests to an operation, and of its answers. */
export interface Counts {
  requests: number
  /** Cases that fit the description and had a good key. */
  positive: number
  positive2xx: number
  streams: number
  statuses: Record<string, number>
}

export interface Round {
  /** By operation, as schemathesis writes it: `GET /models`. */
  readonly counts: Readonly<Record<string, Counts>>
  /** Kinds of failure that the checks found, and errors of schemathesis itself; 0 is good. */
  readonly findings: number
  /** Each with its request as a curl line; empty without findings. */
  readonly report: string
}

export interface RoundOptions {
  /** Generates the same requests again, as far as the gateway answers the same. */
  readonly seed: number
  /** Cases an operation, beside those of the coverage phase. */
  readonly examples: number
  /** Changes the description that schemathesis goes by, so that a test can see it find a lie. */
  readonly alter?: (description: Document) => void
  readonly signal?: AbortSignal
}

export interface Fuzzer {
  round(options: RoundOptions): Promise<Round>
  close(): Promise<void>
}

/** Where schemathesis is installed, or why it can't be. */
export function installSchemathesis() {
  return installPython('schemathesis', VERSION)
}

/** Starts the gateway to ask, with its embedded PostgreSQL. Call `close` at the end. */
export async function openFuzzer(bin: string): Promise<Fuzzer> {
  const chains = openFuzzedChains()
  const server = await startServer({ settings: SETTINGS + chains.settings }).catch((error) => {
    chains.close()
    throw error
  })
  const database = await openDirectory(server.dataDir)
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-fuzz-'))
  const clearing: (() => Promise<void>)[] = []
  const close = async () => {
    for (const stop of clearing) await stop()
    await database.close()
    await server.remove()
    chains.close()
    await rm(folder, { recursive: true, force: true })
  }
  try {
    const customer = await makeCustomer(database, { cents: CREDIT_CENTS, admin: true })
    const limited = await makeCustomer(database, { cents: CREDIT_CENTS, admin: true })
    clearing.push(clearBudgets(database))
    const endpoints = await makeEndpoints(server.url, customer)
    clearing.push(clearMade(database, 'webhook_endpoints', endpoints.ids))
    const deposits = await makeDeposits(server.url, customer, chains)
    clearing.push(clearMade(database, 'deposits', deposits.ids))
    const seeds = {
      models: MODELS,
      sizes: SIZES,
      imagesMost: IMAGES_MOST,
      secondsMost: SECONDS_MOST,
      videos: await makeVideos(server.url, customer),
      endpointCursors: endpoints.cursors,
      deposits,
      ...(await fillUsage(database, server.url, customer)),
    }
    await setLimit(server.url, limited.key)
    const context = {
      bin,
      folder,
      url: server.url,
      environment: {
        SCHEMATHESIS_HOOKS: join(import.meta.dirname, 'hooks.py'),
        // Nothing is left beside hooks.py.
        PYTHONDONTWRITEBYTECODE: '1',
        TOLLGATE_FUZZ_KEY: customer.key,
        TOLLGATE_FUZZ_LIMITED_KEY: limited.key,
        TOLLGATE_FUZZ_COUNTS: join(folder, 'counts.json'),
      },
      seeds,
    }
    return { round: (options) => runRound(context, options), close }
  } catch (error) {
    await close()
    throw error
  }
}

/** There is one from the start, so that reading it need not wait for a case that sets it. */
async function setLimit(url: string, key: string): Promise<void> {
  const answer = await fetch(`${url}/billing/spending-limit`, {
    method: 'PUT',
    headers: { Authorization: `Bearer ${key}` },
    body: JSON.stringify({ monthly_limit_dollars: 100 }),
  })
  if (!answer.ok) throw new Error(await answer.text())
}

interface FuzzContext {
  readonly bin: string
  readonly folder: string
  readonly url: string
  readonly environment: Readonly<Record<string, string>>
  readonly seeds: object
}

async function runRound(context: FuzzContext, { seed, examples, alter, signal }: RoundOptions): Promise<Round> {
  const { bin, folder, url, environment, seeds } = context
  const described: Document = await (await fetch(`${url}/openapi.json`)).json()
  alter?.(described)
  await writeFile(join(folder, 'openapi.json'), JSON.stringify(described))
  const [counts, summary] = [join(folder, 'counts.json'), join(folder, 'summary.json')]
  for (const file of [counts, summary]) await rm(file, { force: true })
  const { stdout, stderr } = await run(
    [
      join(bin, 'st'),
      `--config-file=${join(import.meta.dirname, 'schemathesis.toml')}`,
      'run',
      'openapi.json',
      `--url=${url}`,
      '--checks=all',
      `--max-examples=${examples}`,
      `--seed=${seed}`,
      // Half of the cases that don't fit lack only the key, where that is a part of the case: every other round without it.
      `--generation-with-security-parameters=${seed % 2 === 0}`,
      '--no-color',
      '--no-shrink',
      // How many generated values schemathesis throws away, and how long that takes, says nothing of the gateway.
      '--suppress-health-check=all',
      '--report=json',
      `--report-json-path=${summary}`,
    ],
    {
      cwd: folder,
      environment: { ...environment, TOLLGATE_FUZZ_SEEDS: JSON.stringify({ ...seeds, run: `${seed}` }) },
      signal: AbortSignal.any([AbortSignal.timeout(ROUND_LIMIT_MS), ...(signal === undefined ? [] : [signal])]),
    },
  )
  signal?.throwIfAborted()
  const read = async (file: string) => JSON.parse(await readFile(file, 'utf8'))
  const { complete, failures, errors } = await read(summary).catch(() => {
    throw new Error(`schemathesis ended early:\n${stdout.slice(-4_000)}\n${stderr.slice(-4_000)}`)
  })
  const findings = failures.length + errors.length + (complete ? 0 : 1)
  const report = stdout.slice(Math.max(0, stdout.search(/^=+ (ERRORS|FAILURES) =+$/m)))
  return { counts: await read(counts), findings, report: findings === 0 ? '' : report }
}
