/** Stripe's own stand-in for its API: it knows every path, parameter and shape, and keeps no state. It is built where Go is installed. */

import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../freePort.ts'
import type { Schemas } from './stripeSpec.ts'

const MODULE = 'github.com/stripe/stripe-mock@v0.203.0'

export const HAS_GO = Bun.which('go') !== null

export interface StripeMock {
  readonly url: string
  /** The description of Stripe's API that it brings. */
  readonly spec: StripeSpec
  close(): Promise<void>
}

/** The part of an OpenAPI description that tests read. */
export interface StripeSpec {
  readonly paths: Readonly<Record<string, Readonly<Record<string, StripeOperation>>>>
  readonly components: { readonly schemas: Schemas }
}

interface StripeOperation {
  readonly responses: Readonly<
    Record<string, { readonly content?: { readonly 'application/json': { readonly schema: object } } }>
  >
}

/** Builds it, some 30 s at the first time, and starts it. Call `close` in `afterAll`. */
export async function openStripeMock(): Promise<StripeMock> {
  const directory = await mkdtemp(join(tmpdir(), 'stripe-mock-'))
  const { Dir: source } = JSON.parse(await go(['mod', 'download', '-json', MODULE], directory)) as { Dir: string }
  await go(['install', MODULE], directory)
  const spec = JSON.parse(await readFile(join(source, 'embedded/openapi/spec3.json'), 'utf8')) as StripeSpec
  const port = await freePort()
  const child = Bun.spawn([join(directory, 'stripe-mock'), '-http-addr', `127.0.0.1:${port}`], {
    stdout: 'ignore',
    stderr: 'ignore',
  })
  const url = `http://127.0.0.1:${port}`
  while (child.exitCode === null && !(await answers(url)));
  return {
    url,
    spec,
    async close() {
      child.kill()
      await child.exited
      await rm(directory, { recursive: true, force: true })
    },
  }
}

async function go(words: readonly string[], directory: string): Promise<string> {
  const child = Bun.spawn(['go', ...words], {
    cwd: directory,
    env: { ...process.env, GOBIN: directory, GOFLAGS: '-mod=mod' },
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [out, error] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  if ((await child.exited) !== 0) throw new Error(`go ${words.join(' ')}: ${error}`)
  return out
}

async function answers(url: string): Promise<boolean> {
  return fetch(url).then(
    () => true,
    () => false,
  )
}
