/** What a BERT is fine-tuned to tell (Devlin et al. 2018, section 4). */
export type BertTask =
  /** Which of some classes a text, or a pair of texts, belongs to. */
  | { readonly kind: 'classification'; readonly numClasses: number }
  /** Which of a sample's sequences is right. */
  | { readonly kind: 'multiple-choice' }
  /** From which token to which the answer is. */
  | { readonly kind: 'span' };
