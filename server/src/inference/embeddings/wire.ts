/**
 * The JSON before and after the vectors of an EmbeddingsResponse. Model ids are ASCII, so the length in characters is the length in
 * bytes. There are no completion tokens, so the total is the prompt's.
 */
export function aroundData(model: string, promptTokens: number): { readonly before: string; readonly after: string } {
  const usage = `{"prompt_tokens":${promptTokens},"total_tokens":${promptTokens}}`
  return { before: '{"object":"list","data":', after: `,"model":${JSON.stringify(model)},"usage":${usage}}` }
}
