// Implements merge_binding.h.
#include "merge_binding.h"

#include <errno.h>

#include <memory>
#include <new>

#include "arguments.h"
#include "call.h"
#include "convert.h"
#include "exports.h"
#include "merge.h"

namespace {

// The same elements of several tensors, of up to 32 bits each.
class Elements {
 public:
  // Reads the arguments (dtypes, arrays), of which each array has the elements of one tensor.
  Failure Read(const Napi::Value& dtypes, const Napi::Value& arrays, uint64_t first, Level level) {
    const napi_env env = arrays.Env();
    const uint8_t* codes;
    uint32_t count = 0;
    if (!ReadItems(dtypes, &codes, &inputs_.count) || inputs_.count == 0) return "dtypes";
    if (napi_get_array_length(env, arrays, &count) != napi_ok || count != inputs_.count) {
      return "arrays";
    }
    inputs_.first = first;
    inputs_.loops = FindMergeLoops(level);
    if (inputs_.loops == nullptr) return -ENOTSUP;
    elements_.reset(new (std::nothrow) MergeInput[count]);
    if (!elements_) return -ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
      const auto dtype = static_cast<Dtype>(codes[i]);
      if (dtype != Dtype::kF32 && dtype != Dtype::kF16 && dtype != Dtype::kBf16) return "dtypes";
      napi_value array;
      if (napi_get_element(env, arrays, i, &array) != napi_ok) return "arrays";
      MergeInput& input = elements_[i];
      size_t byte_length;
      if (!ReadItems(Napi::Value(env, array), &input.bytes, &byte_length)) return "arrays";
      input.decode = FindKernel(dtype, level);
      if (input.decode == nullptr) return -ENOTSUP;
      input.element_bytes = BitsPerValue(dtype) / 8;
      const size_t length = byte_length / input.element_bytes;
      if (byte_length % input.element_bytes != 0 || (i > 0 && length != inputs_.length)) {
        return "arrays";
      }
      inputs_.length = length;
    }
    inputs_.inputs = elements_.get();
    return {};
  }

  const MergeInputs& inputs() const { return inputs_; }

 private:
  MergeInputs inputs_;
  std::unique_ptr<MergeInput[]> elements_;
};

// survey(kind, dtypes, first, arrays, rule, results, level): 0
struct SurveyCall {
  static constexpr char kName[] = "safetensors-mmap.survey";

  Survey survey;
  Elements elements;
  const double* rule;
  double* results;

  Failure Read(const Napi::CallbackInfo& info) {
    uint64_t survey_code;
    uint64_t first;
    uint64_t level_code;
    size_t rule_length;
    size_t results_length;
    if (!ReadSize(info[0], &survey_code) || survey_code >= kSurveyCount) return "kind";
    if (!ReadSize(info[2], &first)) return "first";
    if (!ReadItems(info[4], &rule, &rule_length)) return "rule";
    if (!ReadItems(info[5], &results, &results_length)) return "results";
    if (!ReadSize(info[6], &level_code) || level_code >= kLevelCount) return "level";
    survey = static_cast<Survey>(survey_code);
    const auto level = static_cast<Level>(level_code);
    if (const Failure failure = elements.Read(info[1], info[3], first, level)) return failure;
    const size_t count = elements.inputs().count;
    if (survey != Survey::kProducts && count != 2) return "arrays";
    if (!IsRule(survey, rule, rule_length)) return "rule";
    if (results_length != ResultsLength(survey, rule, count)) return "results";
    return {};
  }

  int64_t Run() const {
    RunSurvey(survey, elements.inputs(), rule, results);
    return 0;
  }
};

// mergeElements(to, dtypes, first, arrays, rules, output, level): how many results are not finite
struct MergeCall {
  static constexpr char kName[] = "safetensors-mmap.mergeElements";

  Elements elements;
  const double* rules;
  Product to;
  uint8_t* output;

  Failure Read(const Napi::CallbackInfo& info) {
    uint64_t to_code;
    uint64_t first;
    uint64_t level_code;
    size_t rules_length;
    size_t output_length;
    if (!ReadSize(info[0], &to_code) || to_code >= kDtypeCount) return "to";
    if (!ReadSize(info[2], &first)) return "first";
    if (!ReadItems(info[4], &rules, &rules_length)) return "rules";
    if (!ReadItems(info[5], &output, &output_length)) return "output";
    if (!ReadSize(info[6], &level_code) || level_code >= kLevelCount) return "level";
    const auto dtype = static_cast<Dtype>(to_code);
    const auto level = static_cast<Level>(level_code);
    if (const Failure failure = elements.Read(info[1], info[3], first, level)) return failure;
    if (dtype == Dtype::kF64 || !SelectKernels(Dtype::kF32, dtype, level, &to)) return "to";
    if (!AreRules(rules, rules_length, elements.inputs().count)) return "rules";
    if (output_length != elements.inputs().length * to.output_bytes) return "output";
    return {};
  }

  int64_t Run() const {
    return static_cast<int64_t>(MergeElements(elements.inputs(), rules, to, output));
  }
};

}  // namespace

void ExportMerge(Napi::Env env, Napi::Object exports) {
  Define(env, exports,
         {
             Export<RunHere<SurveyCall>>("survey"),
             Export<RunOnPool<PoolCallOverArrays<SurveyCall, 3, 3>>>("surveyAsync"),
             Export<RunHere<MergeCall>>("mergeElements"),
             Export<RunOnPool<PoolCallOverArrays<MergeCall, 3, 3>>>("mergeElementsAsync"),
         });
}
