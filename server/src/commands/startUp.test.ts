import { expect, test } from 'bun:test'
import { refuseEngines } from './startUp.ts'

test('without the engine, settings with a GGUF file are refused in a sentence that says what to run; others are not', () => {
  const sandbox = { name: 'play', dialect: 'sandbox', tokensPerSecond: 1, firstTokenMs: 1 } as never
  expect(() => refuseEngines({ providers: [sandbox] })).not.toThrow()
  const own = { name: 'own', dialect: 'gguf', file: '/m/own.gguf', sequences: 1, contextTokens: 512 } as const
  expect(() => refuseEngines({ providers: [sandbox, own] })).toThrow(
    'provider "own": GGUF files need an engine of 0.7 GB that is not installed: run "tollgate models pull", then start again',
  )
})
