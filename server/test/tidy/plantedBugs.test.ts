/** Each planted bug still has its place in the source: else the long tests would look for a bug that is not there. */

import { expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PLANTED_DEPOSIT_BUGS } from '../deposits/plantedDepositBugs.ts'
import { PLANTED_IDENTITY_BUGS } from '../identityProviders/plantedIdentityBugs.ts'
import { PLANTED_PAYMENT_BUGS } from '../payments/plantedPaymentBugs.ts'
import { PLANTED_BUGS } from '../simulator/plantedBugs.ts'
import { CHECKOUT } from './sources.ts'

const SOURCES = join(CHECKOUT, 'server/src')

const bugs = [
  ...PLANTED_BUGS.map((bug) => ({ name: bug.name, folder: SOURCES, exchanges: [bug, ...(bug.also ?? [])] })),
  ...[...PLANTED_PAYMENT_BUGS, ...PLANTED_DEPOSIT_BUGS].map(({ name, exchanges }) => ({
    name,
    folder: join(SOURCES, 'payments'),
    exchanges,
  })),
  ...PLANTED_IDENTITY_BUGS.map(({ name, exchanges }) => ({
    name,
    folder: join(SOURCES, 'identity/accounts'),
    exchanges,
  })),
]

test.each(bugs.map((bug) => [bug.name, bug] as const))('can be planted: %s', async (_, { folder, exchanges }) => {
  const sources = new Map<string, string>()
  for (const { file, search, replace } of exchanges) {
    const source = sources.get(file) ?? (await readFile(join(folder, file), 'utf8'))
    expect({ file, places: source.split(search).length - 1 }).toEqual({ file, places: 1 })
    // The next exchange of a bug may be in what this one has put there.
    sources.set(
      file,
      source.replace(search, () => replace),
    )
  }
})
