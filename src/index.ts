export { DTYPES, type Dtype, type DtypeFacts } from './dtype.js';
