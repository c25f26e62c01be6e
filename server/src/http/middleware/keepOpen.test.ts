import { expect, test } from 'bun:test'
import { exchangeOf } from '../../../test/exchange.ts'
import { keepOpen } from './keepOpen.ts'

test('the idle timeout is off', async () => {
  const exchange = exchangeOf('/v1/things')
  expect(await keepOpen(exchange)).toBeNull()
  expect(exchange.idleTimeouts).toEqual([0])
})
