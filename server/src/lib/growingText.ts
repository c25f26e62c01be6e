/** Pieces that are joined at once: a piece by itself takes some 70 bytes beside its characters, and each collection of garbage looks at it. */
const JOINED_AT_ONCE = 16

/** A text that comes in many small pieces, such as an answer of a model. Each character is copied twice at most. */
export class GrowingText {
  private readonly joined: string[] = []
  private recent: string[] = []

  /** Adds a piece at the end. */
  add(piece: string): void {
    this.recent.push(piece)
    if (this.recent.length < JOINED_AT_ONCE) return
    this.joined.push(this.recent.join(''))
    this.recent = []
  }

  /** Returns whether no piece has come, not even an empty one. */
  get isEmpty(): boolean {
    return this.recent.length === 0 && this.joined.length === 0
  }

  /** All pieces, one behind the other. */
  toString(): string {
    return this.joined.join('') + this.recent.join('')
  }
}
