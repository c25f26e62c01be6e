/**
 * The way around promises for what arrives piece by piece: a piece that is here is taken at once, and who waits for the next one is
 * called in the same turn of the event loop that brings it. A piece that is handed on by promises costs several turns.
 */
export interface Arriving<Piece> {
  /** The next piece, if it is here already. Undefined says nothing about the end: only `next()` does. */
  ready?(): Piece | undefined
  /**
   * Calls back once, as soon as `ready` may have a piece or the end is known; never before it returns. False: nothing will be told;
   * ask `next()`. Call it only when `ready` has given undefined, and not while a `next()` is waited for.
   */
  whenReady?(callback: () => void): boolean
}
