import { describe, expect, test } from 'bun:test'
import { z } from 'zod'
import { refusal } from '../lib/errors.ts'
import { pathOf } from './faults.ts'
import { validate } from './validate.ts'

const schema = z.strictObject({
  name: z.string().optional(),
  list: z.array(z.strictObject({ size: z.int().min(1) })).optional(),
})

test.each<[PropertyKey[], string]>([
  [[], ''],
  [['a'], 'a'],
  [['a', 0, 'b', 12], 'a[0].b[12]'],
  [['x'.repeat(999)], 'x'.repeat(256)],
])('%j is written as clients write it', (path, text) => {
  expect(pathOf(path)).toBe(text)
})

describe('null (E7)', () => {
  test('counts as absent, at any depth, known or not', () => {
    const body = { name: null, other: null, list: [{ size: 1, other: null }] }
    const valid = validate(schema, body, 'invalid_request')
    expect(valid).toEqual({ ok: true, value: { list: [{ size: 1 }] } })
    expect(body.list).toEqual([{ size: 1, other: null }])
  })

  test('is a value in a list', () => {
    const valid = validate(schema, { list: [null] }, 'invalid_request')
    expect(valid).toMatchObject({ ok: false, refusal: { code: 'invalid_request', param: 'list[0]' } })
  })
})

describe('a body that does not fit', () => {
  test.each([[[]], ['text'], [5], [null], [undefined]])('%j is no object', (body) => {
    expect(validate(schema, body, 'validation_failed')).toMatchObject({
      ok: false,
      refusal: { code: 'validation_failed' },
    })
  })

  test('has what is not known named before what is wrong', () => {
    const refused = validate(schema, { name: 5, list: [{ size: 0, extra: 1 }] }, 'validation_failed')
    expect(refused).toMatchObject({ ok: false, refusal: { code: 'unsupported_parameter', param: 'list[0].extra' } })
  })

  test('is told what is missing, in words', () => {
    const refused = validate(schema, { list: [{}] }, 'validation_failed')
    expect(refused).toMatchObject({
      ok: false,
      refusal: { message: "'list[0].size' is required.", param: 'list[0].size' },
    })
  })

  test('may be explained by its endpoint', () => {
    const explain = () => refusal('invalid_request', 'Mine.')
    expect(validate(schema, { name: 5 }, 'validation_failed', explain)).toMatchObject({ refusal: { message: 'Mine.' } })
  })
})

test('a key that the language knows is a parameter like any other', () => {
  for (const name of ['__proto__', 'constructor', 'toString']) {
    const refused = validate(schema, JSON.parse(`{"${name}":{"a":null}}`), 'validation_failed')
    expect(refused).toMatchObject({ ok: false, refusal: { code: 'unsupported_parameter', param: name } })
  }
  expect(({} as Record<string, unknown>)['a']).toBeUndefined()
})
