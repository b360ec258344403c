/**
 * Summaries of the commands of `mtl`, in the order of its help. The help imports this list instead of the
 * commands, because importing all commands would take longer.
 */
export const summaries = {
  train: 'Pretrains a GPT or a BERT; without flags a small one, on a corpus that is included.',
  run: 'Starts a program as several ranks, on one host or on several.',
  data: 'Creates, inspects and checks datasets and tokenizers.',
  eval: 'Evaluates a trained model: its perplexity on data or text, or a task of the papers.',
  finetune: 'Fine-tunes a BERT for MNLI, QQP, RACE or SQuAD, and scores it.',
  sft: 'Fine-tunes a model on conversations, by the chat template of its tokenizer.',
  chat: 'Holds a conversation with a model in the terminal.',
  generate: 'Continues a text with a trained model.',
  convert: 'Converts a checkpoint to a Hugging Face directory or back, from Megatron-LM or to it.',
  push: 'Uploads a model to the Hugging Face Hub with a model card; private unless --public.',
  checkpoint: 'Lists and checks the checkpoints of a training run.',
  runs: 'Lists training runs with their steps, losses, size and state; compares them, removes them, sends their metrics.',
  watch: 'Serves a page that shows training runs live: curves, what differs, checkpoints, errors.',
  plan: 'Predicts the memory of each process of a training run, and the time of a step.',
  calibrate: 'Measures a profile of this machine, with which mtl plan predicts its runs.',
  schedule: 'Simulates a pipeline schedule: timeline, bubble, activations kept.',
  doctor: 'Shows what training needs and which parts this machine lacks.',
  completion: 'Prints a script that completes command lines in a shell.',
} as const;
