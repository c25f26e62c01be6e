/**
 * What stands around the vectors of an EmbeddingsResponse: no model id has characters outside of ASCII. There are no
 * completion tokens, so the total is the prompt's.
 */
export function aroundData(model: string, promptTokens: number): { readonly before: string; readonly after: string } {
  const usage = `{"prompt_tokens":${promptTokens},"total_tokens":${promptTokens}}`
  return { before: '{"object":"list","data":', after: `,"model":${JSON.stringify(model)},"usage":${usage}}` }
}
