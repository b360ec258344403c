import { longConversationRules } from '@mtl/data/conversations';
import { choice, count, fraction, text, texts, toggle } from './flag-kinds.js';

const fromOneSource = 'a run learns from made-up data or from data of your own';

/** The flags for the training data. */
export const dataFlags = {
  'data-path': texts(
    'Prefixes of .bin/.idx datasets, or pairs of a weight and a prefix: 0.7 wiki_text_document 0.3 books_text_document; or bundled, the corpus of the presets.',
    { placeholder: '[WEIGHT] PREFIX ...', learning: ({ data }) => data.dataPath },
  ),
  'mock-data': toggle(
    'Made-up documents instead of --data-path, without files, to try a layout or measure speed: each counts 1, 2, 3 ... to a random length.',
    {
      learning: true,
      excludes: { 'data-path': fromOneSource, 'train-data': fromOneSource },
    },
  ),
  split: text('Weights of training, validation and test documents.', {
    placeholder: 'A,B,C',
    default: '969,30,1',
    learning: true,
  }),
  'seq-length': count('Tokens per sample.', { learning: ({ model }) => model.sequenceLength }),
  'data-cache-path': text('Folder for the sample indices.', {
    placeholder: 'DIR',
    defaultText: 'cache next to each dataset',
  }),
  'tokenizer-type': choice(
    [
      'GPT2BPETokenizer',
      'HuggingFaceTokenizer',
      'BertWordPieceLowerCase',
      'BertWordPieceCase',
      'ByteLevelTokenizer',
      'NullTokenizer',
    ],
    'How text became token ids. NullTokenizer: the dataset holds ids and --vocab-size is exact.',
    { placeholder: 'NAME' },
  ),
  'tokenizer-model': text(
    'The tokenizer.json of a HuggingFaceTokenizer, the folder it is in, or org/name[@revision] on the Hub.',
    { placeholder: 'PATH' },
  ),
  'vocab-file': text('The vocab.json of a GPT2BPETokenizer, vocab.txt of a BertWordPiece tokenizer.', {
    placeholder: 'FILE',
    defaultText: 'GPT-2: built in',
  }),
  'merge-file': text('The merges.txt of a GPT2BPETokenizer.', {
    placeholder: 'FILE',
    defaultText: 'built in',
  }),
  'vocab-size': count('Number of token ids, for NullTokenizer.'),
  'eod-mask-loss': toggle('No loss for what follows an end-of-document token.'),
  'reset-position-ids': toggle('Counts positions from 0 again after an end-of-document token.'),
  'reset-attention-mask': toggle('No attention across an end-of-document token.'),
};

const conversations = ['train-data', 'belongs to conversations'] as const;

/** The flags for fine-tuning on conversations: the data and the number of epochs. */
export const conversationFlags = {
  'train-data': texts(
    'JSON-lines files of conversations to fine-tune on, instead of --data-path: {"messages": [...]}, {"prompt": ..., "completion": ...}, or lines of ShareGPT or Alpaca; or one JSON array of such conversations. The loss counts only the words of the assistant.',
    { placeholder: 'FILE ...', learning: ({ data }) => data.conversations?.trainData },
  ),
  'validation-data': texts('Files of conversations to evaluate on.', {
    placeholder: 'FILE ...',
    learning: ({ data }) => data.conversations?.validationData,
    needs: conversations,
    excludes: {
      'validation-fraction': 'the conversations to evaluate on come from files or from those to train on',
    },
  }),
  'validation-fraction': fraction('Share of the conversations to evaluate on instead, and not to train on.', {
    default: 0,
    learning: ({ data }) => data.conversations?.validationFraction,
    needs: conversations,
  }),
  epochs: count('Passes over the conversations, instead of --train-iters.', {
    defaultText: 'mtl sft: 3 without --train-iters',
    needs: conversations,
  }),
  'chat-template': text("Chat template in Jinja, instead of the tokenizer's own. Saved with the tokenizer.", {
    placeholder: 'FILE',
  }),
  'long-conversations': choice(
    longConversationRules,
    'What to do with a conversation that does not fit --seq-length: an error, only its start, or leave it out.',
    { default: 'refuse', learning: ({ data }) => data.conversations?.long },
  ),
  'early-stopping-patience': count(
    'Ends training after so many evaluations in a row without a lower validation loss.',
    { needs: conversations },
  ),
};

/** The value of --data-path that selects the bundled corpus, in presets and on command lines. */
export const bundledCorpus = 'bundled';
