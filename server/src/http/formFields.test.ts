import { expect, test } from 'bun:test'
import { formFields } from './formFields.ts'

test('the fields of a form have their values by name, the last of each', () => {
  const fields = formFields([
    { name: 'card', value: 'declines' },
    { name: 'save', value: '' },
    { name: 'card', value: 'succeeds' },
  ])
  expect([...fields]).toEqual([
    ['card', 'succeeds'],
    ['save', ''],
  ])
})

test.each([
  ['nothing', undefined],
  ['null', null],
  ['a text', 'card'],
  ['an object', { name: 'card', value: 'succeeds' }],
  ['a list of null', [null]],
  ['a list of lists', [[]]],
  ['a number', [1]],
  ['a value that is no text', [{ name: 'card', value: { toString: null } }]],
  ['a name that is no text', [{ name: { toString: null }, value: 'succeeds' }]],
  ['no value', [{ name: 'card' }]],
])('a body of JSON that is no form has no fields: %s', (_, body) => {
  expect([...formFields(body)]).toEqual([])
})
