/** The data keys of an installation, as rooms that seal values see them. */

/** The key that values are sealed with now. */
export interface SealingKey {
  /** Names the key beside each value that is sealed with it. */
  readonly number: number
  readonly key: Uint8Array
  /** To be called once what was sealed is committed or given up. Until then the key is kept. */
  done(): void
}

export interface DataKeys {
  /** Takes the key to seal with. */
  take(): SealingKey
  /** Returns the key of this number. Rejects when this process does not have it. */
  find(number: number): Promise<Uint8Array>
  /** Returns the key of this number when this process has it in memory, else null. For numbers that strangers may make up: it reads nothing. */
  peek(number: number): Uint8Array | null
}
