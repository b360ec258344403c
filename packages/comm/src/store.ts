/**
 * Where ranks that do not know each other yet leave notes: how a job comes together. Calls block the thread.
 * A key is written once.
 */
export interface Store {
  set(key: string, value: Uint8Array): void;
  /**
   * The value of a key, waited for.
   * @throws CommunicationError MTL_TIMEOUT, naming the key, when no rank sets it within `timeoutMs`.
   */
  get(key: string, timeoutMs: number): Uint8Array;
}
