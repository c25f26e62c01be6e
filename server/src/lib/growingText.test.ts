import { expect, test } from 'bun:test'
import { fc } from '../../test/properties.ts'
import { GrowingText } from './growingText.ts'

test('whatever pieces come, the text is all of them in their order, at every moment', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ maxLength: 4 }), { maxLength: 300 }), fc.nat(300), (pieces, look) => {
      const text = new GrowingText()
      expect([text.isEmpty, `${text}`]).toEqual([true, ''])
      for (const [index, piece] of pieces.entries()) {
        text.add(piece)
        if (index === look) expect(`${text}`).toBe(pieces.slice(0, index + 1).join(''))
        expect(text.isEmpty).toBe(false)
      }
      expect(`${text}`).toBe(pieces.join(''))
    }),
  )
})
