/** Not beside the encoder: that is for its thread alone. Who loads it has its handlers of errors that nobody caught, too. */
export const FRAMES_PER_SECOND = 24
