/** The provider's file is no clip that a customer could be given, or charged for. */
export class InvalidOutput extends Error {
  constructor(detail: string) {
    super(detail)
    this.name = 'InvalidOutput'
  }
}

/** The bytes of a file from `start` up to, and without, `end`; both are within it. */
export type ReadRange = (start: number, end: number) => Promise<Uint8Array<ArrayBuffer>>
