import { gunzipSync, inflateSync } from 'node:zlib'

/** The decompressor of each Content-Encoding that a body may have. */
export const DECODERS = { gzip: gunzipSync, 'x-gzip': gunzipSync, deflate: inflateSync } as const

export type Compression = keyof typeof DECODERS

/** Decompressed at a time; more than that is put together once. The decompressor refuses less than the least. */
const CHUNK_BYTES = 256 << 10
const CHUNK_BYTES_LEAST = 64

/** Decompresses at most `mostBytes`, all at once: `large` where there would be more, `corrupt` where it is cut off or wrong. */
export function inflate(
  bytes: Uint8Array<ArrayBuffer>,
  compression: Compression,
  mostBytes: number,
): Uint8Array<ArrayBuffer> | 'large' | 'corrupt' {
  try {
    // No more than may come out, or 256 KiB would be made of a body that is refused beyond 32 KiB.
    const chunkSize = Math.max(CHUNK_BYTES_LEAST, Math.min(CHUNK_BYTES, mostBytes))
    const options = { maxOutputLength: mostBytes, chunkSize }
    const { buffer, byteOffset, byteLength } = DECODERS[compression](bytes, options)
    return new Uint8Array(buffer, byteOffset, byteLength)
  } catch (error) {
    return (error as { readonly code?: unknown }).code === 'ERR_BUFFER_TOO_LARGE' ? 'large' : 'corrupt'
  }
}
