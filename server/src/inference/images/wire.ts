/**
 * ImagesResponse as JSON, in pieces. Base64 needs no escaping, and images are large: they stand in it as they are, where they
 * are in memory.
 */
export function imagesToWire(
  createdSeconds: number,
  images: readonly Uint8Array<ArrayBuffer>[],
): readonly Uint8Array<ArrayBuffer>[] {
  const encoder = new TextEncoder()
  const pieces: Uint8Array<ArrayBuffer>[] = []
  for (const [index, image] of images.entries()) {
    const before = index === 0 ? `{"created":${createdSeconds},"data":[` : '"},'
    pieces.push(encoder.encode(`${before}{"b64_json":"`), image)
  }
  pieces.push(encoder.encode(`"}],"usage":{"image_count":${images.length}}}`))
  return pieces
}
