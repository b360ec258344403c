import type { ReceivedWhileRecording } from '../ranks/receive-while-recording.js';

/**
 * The expected result: the message and the graph are complete, and waits, polls and starts were rejected
 * meanwhile.
 */
export const receivedWhileRecording: ReceivedWhileRecording = {
  received: [3, 5],
  doubled: [4, 4],
  refusals: ['MTL_CAPTURE', 'MTL_CAPTURE', 'MTL_CAPTURE'],
};
