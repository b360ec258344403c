/** A model in the cache. */
export interface ResolvedModel {
  /** The directory that contains the model's files, in the form that the transformers library reads. */
  readonly directory: string;
  /** `org/name` */
  readonly name: string;
  /** The commit to which the revision points. */
  readonly commit: string;
  /** The number of bytes fetched; 0 if all files were in the cache. */
  readonly fetchedBytes: number;
}
