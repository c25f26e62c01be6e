/** ImagesResponse as JSON. Base64 needs no escaping, and images are large: they are put in as they are. */
export function imagesToWire(createdSeconds: number, images: readonly string[]): string {
  const data = images.map((image) => `{"b64_json":"${image}"}`).join(',')
  return `{"created":${createdSeconds},"data":[${data}],"usage":{"image_count":${images.length}}}`
}
