import type { ReceivedWhileRecording } from '../ranks/receive-while-recording.js';

/** The message is whole, the graph too, and waiting, looking and starting were refused meanwhile. */
export const receivedWhileRecording: ReceivedWhileRecording = {
  received: [3, 5],
  doubled: [4, 4],
  refusals: ['MTL_CAPTURE', 'MTL_CAPTURE', 'MTL_CAPTURE'],
};
