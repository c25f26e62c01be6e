import { expect, test } from 'bun:test'
import { parsePassword } from './password.ts'

const ADA = { name: 'Ada Lovelace', email: 'analyst@example.com' }

const fault = (password: string, owner = ADA) => {
  const read = parsePassword(password, owner)
  return read.ok ? null : read.refusal.message
}

test.each([
  '1234567890',
  'qwertyuiop',
  'password123',
  'Password123',
  'password123!',
  '!!qwertyuiop',
  'passwordpassword',
])('a password that many people have is refused: %s', (password) => {
  expect(fault(password)).toStartWith('Many people have this password')
})

test.each([
  ['my analyst phrase', 'This password holds your mail address. Choose another one.'],
  ['MyAnalyst1842', 'This password holds your mail address. Choose another one.'],
  ['lovelace 1815 x', 'This password holds your name. Choose another one.'],
  ['the AdaLovelace phrase', 'This password holds your name. Choose another one.'],
  ['abababababab', 'This password has fewer than 4 different characters. Choose another one.'],
  ['aAbBaAbBaAbBcC', 'This password has fewer than 4 different characters. Choose another one.'],
  ['too short', 'A password has 10 to 128 characters.'],
  ['x y z '.repeat(22), 'A password has 10 to 128 characters.'],
])('a password that is easily guessed is refused with the reason: %s', (password, message) => {
  expect(fault(password)).toBe(message)
})

test.each(['a long enough phrase', 'adamant quartz', 'kontrabassoon 7', 'x1234567890y'])(
  'any other password is taken: %s',
  (password) => expect(fault(password)).toBeNull(),
)

test('short names and addresses are parts of many words: they do not count', () => {
  expect(fault('a long enough phrase', { name: 'A. Long', email: 'a@example.com' })).toBeNull()
})
