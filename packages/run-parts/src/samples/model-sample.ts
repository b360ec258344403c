/** What a model shows of what it has learnt. */
export interface ModelSample {
  /** What it is, such as `A sample`. */
  readonly label: string;
  /** For people: the label, and under it what the model made, with what it was given. */
  readonly text: string;
  /** What a GPT was given. Of a conversation: a line for each message. */
  readonly prompt?: string;
  /** All that it wrote; `text` may end at the last whole sentence before. */
  readonly completion?: string;
}
