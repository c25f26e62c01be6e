/** The part of the compiler that the tests use; its package brings no types. */
declare module 'solc' {
  const solc: { compile(input: string): string }
  export default solc
}
