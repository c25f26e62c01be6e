import { describe, expect, test } from 'bun:test'
import { z } from 'zod'
import { refusal } from '../lib/errors.ts'
import { type ExplainIssue, quotedNames } from './faults.ts'
import { validate } from './validate.ts'

const schema = z.strictObject({
  name: z.string().optional(),
  list: z.array(z.strictObject({ size: z.int().min(1), kind: z.enum(['a', 'b']).optional() })).optional(),
})

const refuse = (body: unknown, explain?: ExplainIssue) => {
  const valid = validate(schema, body, 'validation_failed', explain)
  return valid.ok ? null : valid.refusal
}

describe('every unsupported parameter is named at once, and param is the first (E17)', () => {
  test.each([
    [{ x: 1 }, "The parameter 'x' is not supported here; leave it out.", 'x'],
    [{ y: 1, x: 1 }, "The parameters 'y' and 'x' are not supported here; leave them out.", 'y'],
    [
      {
        z: 1,
        list: [
          { size: 1, a: 1 },
          { size: 1, b: 2, c: 3 },
        ],
      },
      "The parameters 'list[0].a', 'list[1].b', 'list[1].c' and 'z' are not supported here; leave them out.",
      'list[0].a',
    ],
  ])('%j', (body, message, param) => {
    expect(refuse(body)).toEqual({ code: 'unsupported_parameter', message, param })
  })

  test('before values that are wrong, wherever they stand', () => {
    const wrong = { name: 5, list: [{ size: 0 }, { size: 'x', kind: 'c' }, { size: 1, extra: 1 }], other: 1 }
    expect(refuse(wrong)).toMatchObject({ code: 'unsupported_parameter', param: 'list[2].extra' })
    expect(refuse(wrong)?.message).toContain("'list[2].extra' and 'other' are not supported")
  })

  test('up to twenty, with the number of the others', () => {
    const body = Object.fromEntries(Array.from({ length: 33 }, (_, index) => [`p${index}`, 1]))
    const { message = '', param } = refuse(body) ?? {}
    expect(param).toBe('p0')
    expect(message).toEndWith("'p18', 'p19' and 13 more are not supported here; leave them out.")
    expect(message.match(/'/g)).toHaveLength(40)
  })

  test('of names as long as they like, and in thousands, the message stays short', () => {
    const body = Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`${index}${'x'.repeat(1_000)}`, 1]))
    expect(refuse(body)?.message.length).toBeLessThan(6_000)
  })
})

describe("an endpoint's own words stand beside those of the others", () => {
  const explain: ExplainIssue = (issue) => {
    if (issue.code === 'unrecognized_keys') {
      const [param = ''] = issue.keys
      return param === 'old' ? refusal('unsupported_parameter', 'Use name in place of old.', { param }) : null
    }
    if (issue.path.at(-1) === 'kind') return refusal('unsupported_parameter', 'No kind c.', { param: 'kind' })
    return null
  }
  test.each([
    [{ old: 1 }, 'Use name in place of old.', 'old'],
    [{ old: 1, x: 1 }, "Use name in place of old. The parameter 'x' is not supported here; leave it out.", 'old'],
    [
      { x: 1, old: 1, y: 1 },
      "The parameters 'x' and 'y' are not supported here; leave them out. Use name in place of old.",
      'x',
    ],
    [{ name: 5, list: [{ size: 0, kind: 'c' }] }, 'No kind c.', 'kind'],
    [
      { list: [{ size: 1, kind: 'c' }], x: 1 },
      "The parameter 'x' is not supported here; leave it out. No kind c.",
      'x',
    ],
  ])('%j', (body, message, param) => {
    expect(refuse(body, explain)).toEqual({ code: 'unsupported_parameter', message, param })
  })

  test('a wrong value has them too', () => {
    const mine = () => refusal('validation_failed', 'Mine.', { param: 'name' })
    expect(refuse({ name: 5 }, mine)?.message).toBe('Mine.')
  })
})

test.each([
  [{ x: 1 }, "There is no field 'x' here; leave it out."],
  [{ x: 1, y: 1 }, "There are no fields 'x' and 'y' here; leave them out."],
])('in envelope A an unknown field is validation_failed: %j', (body, message) => {
  const valid = validate(schema, body, 'validation_failed', undefined, 'validation_failed')
  expect(valid).toEqual({ ok: false, refusal: { code: 'validation_failed', message, param: 'x' } })
})

test.each([
  [['a'], 1, "'a'"],
  [['a', 'b'], 2, "'a' and 'b'"],
  [['a', 'b', 'c'], 3, "'a', 'b' and 'c'"],
  [['a', 'b'], 9, "'a', 'b' and 7 more"],
])('%j of %i is %s', (names, count, text) => {
  expect(quotedNames(names, count)).toBe(text)
})
