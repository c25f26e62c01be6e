import { expect, test } from 'bun:test'
import { fc } from '../../test/properties.ts'
import type { TargetChoice } from '../catalog/model.ts'
import type { ProviderTarget } from '../providers/dialect/spec.ts'
import { orderOf } from './order.ts'

interface Row {
  readonly weight?: number
  readonly backup?: true
  readonly open?: number
  readonly waitMs?: number
}

/** The positions of the targets in the order in which they are asked. */
function order(choice: TargetChoice, rows: readonly Row[], random = () => 0.5): string {
  const targets = rows.map(({ weight = 1, backup }, position): ProviderTarget => {
    const provider = { name: `${position}`, chat: () => Promise.reject(new Error('not asked here')) }
    return { provider, model: `${position}`, weight, ...(backup === true ? { backup } : {}) }
  })
  const of = ({ model }: ProviderTarget) => rows[Number(model)]
  const look = {
    open: (target: ProviderTarget) => of(target)?.open ?? 0,
    waitMs: (target: ProviderTarget) => of(target)?.waitMs ?? 0,
    random,
  }
  return orderOf(targets, choice, look)
    .map(({ model }) => model)
    .join('')
}

const tables: [string, TargetChoice, readonly Row[], string][] = [
  ['as they stand', 'in_order', [{}, {}, {}], '012'],
  ['backups last', 'in_order', [{ backup: true }, {}, {}], '120'],
  ['who is paused behind everyone, backups too', 'in_order', [{ waitMs: 9 }, { backup: true }, { waitMs: 1 }], '120'],
  ['the least busy', 'least_busy', [{ open: 3 }, { open: 1 }, { open: 2 }], '120'],
  ['busy for their weight', 'least_busy', [{ open: 3 }, { open: 8, weight: 4 }, { open: 9, weight: 9 }], '210'],
  ['an idle backup behind a busy target', 'least_busy', [{ backup: true }, { open: 50 }], '10'],
  ['one is asked, whatever is known of it', 'weighted', [{ waitMs: 60_000 }], '0'],
]
test.each(tables)('%s', (_, choice, rows, expected) => expect(order(choice, rows)).toBe(expected))

test('weighted: first as often as the share of the weights says', () => {
  let state = 1
  const random = () => {
    state = (state * 48_271) % 2_147_483_647
    return state / 2_147_483_647
  }
  const first = [0, 0, 0]
  for (let draws = 0; draws < 10_000; draws += 1) {
    const chosen = Number(order('weighted', [{ weight: 1 }, { weight: 2 }, { weight: 7 }], random)[0])
    first[chosen] = (first[chosen] ?? 0) + 1
  }
  expect(first[0]).toBeWithin(900, 1_100)
  expect(first[1]).toBeWithin(1_850, 2_150)
  expect(first[2]).toBeWithin(6_800, 7_200)
})

test('nobody is left out or asked twice', () => {
  const row = fc.record({ weight: fc.integer({ min: 1, max: 9 }), open: fc.nat(9), waitMs: fc.constantFrom(0, 0, 5) })
  const choices = fc.constantFrom<TargetChoice>('in_order', 'weighted', 'least_busy')
  fc.assert(
    fc.property(
      choices,
      fc.array(row, { maxLength: 9 }),
      fc.infiniteStream(fc.double({ min: 0, max: 0.999 })),
      (choice, rows, draws) => {
        const asked = order(choice, rows, () => draws.next().value ?? 0)
        expect([...asked].sort().join('')).toBe(rows.map((_, position) => position).join(''))
      },
    ),
  )
})
