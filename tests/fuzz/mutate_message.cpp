#include "fuzz/mutate_message.h"

#include <google/protobuf/descriptor.h>

#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace tutti::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// A field that may change: of a message inside the whole one.
struct Place {
  Message* message;
  const FieldDescriptor* field;
};

class Mutator {
  std::size_t below(std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_);
  }
  template <class List>
  const auto& pick(const List& list) {
    return list[below(std::size(list))];
  }

 public:
  Mutator(Message* whole, std::mt19937& random) : random_(random) { collect(whole); }

  void mutate() {
    const Place place = pick(places_);
    const Reflection& reflection = *place.message->GetReflection();
    const bool is_set = place.field->is_repeated()
                            ? reflection.FieldSize(*place.message, place.field) > 0
                            : reflection.HasField(*place.message, place.field);
    if (!is_set) return add(place);
    switch (below(place.field->is_repeated() ? 6 : 3)) {
      case 0: return remove(place);
      case 3: return add(place);
      case 4: return swap(place);
      default: return change(place);
    }
  }

 private:
  void collect(Message* message) {
    const Reflection& reflection = *message->GetReflection();
    const auto* descriptor = message->GetDescriptor();
    messages_.push_back(message);
    for (int i = 0; i < descriptor->field_count(); ++i) {
      const FieldDescriptor* field = descriptor->field(i);
      const bool is_list = field->is_repeated();
      const int count = is_list ? reflection.FieldSize(*message, field)
                                : static_cast<int>(reflection.HasField(*message, field));
      // What is there changes more often than what is not.
      places_.push_back({message, field});
      for (int more = 0; more < 4 && count > 0; ++more) places_.push_back({message, field});
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        for (int n = 0; n < count; ++n) {
          texts_.push_back(is_list ? reflection.GetRepeatedString(*message, field, n)
                                   : reflection.GetString(*message, field));
        }
      }
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
      for (int n = 0; n < count; ++n) {
        collect(is_list ? reflection.MutableRepeatedMessage(message, field, n)
                        : reflection.MutableMessage(message, field));
      }
    }
  }

  void remove(const Place& place) {
    const Reflection& reflection = *place.message->GetReflection();
    if (!place.field->is_repeated()) return reflection.ClearField(place.message, place.field);
    swap(place);
    reflection.RemoveLast(place.message, place.field);
  }

  // The last element with another.
  void swap(const Place& place) {
    const Reflection& reflection = *place.message->GetReflection();
    const int count = reflection.FieldSize(*place.message, place.field);
    reflection.SwapElements(place.message, place.field, count - 1,
                            static_cast<int>(below(static_cast<std::size_t>(count))));
  }

  void add(const Place& place) {
    const Reflection& reflection = *place.message->GetReflection();
    if (!place.field->is_repeated()) return set(place, -1);
    const int count = reflection.FieldSize(*place.message, place.field);
    if (place.field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const std::unique_ptr<Message> other = copy_of_any(place.field);
      reflection.AddMessage(place.message, place.field)->CopyFrom(*other);
      return;
    }
    switch (place.field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        reflection.AddInt32(place.message, place.field, 0);
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        reflection.AddInt64(place.message, place.field, 0);
        break;
      case FieldDescriptor::CPPTYPE_UINT32:
        reflection.AddUInt32(place.message, place.field, 0);
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        reflection.AddUInt64(place.message, place.field, 0);
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        reflection.AddFloat(place.message, place.field, 0);
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        reflection.AddDouble(place.message, place.field, 0);
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        reflection.AddBool(place.message, place.field, false);
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        reflection.AddEnumValue(place.message, place.field, 0);
        break;
      default: reflection.AddString(place.message, place.field, ""); break;
    }
    set(place, count);
  }

  void change(const Place& place) {
    const Reflection& reflection = *place.message->GetReflection();
    const int count =
        place.field->is_repeated() ? reflection.FieldSize(*place.message, place.field) : 0;
    set(place, count == 0 ? -1 : static_cast<int>(below(static_cast<std::size_t>(count))));
  }

  // `index` in a list, else -1.
  void set(const Place& place, int index) {
    Message* message = place.message;
    const FieldDescriptor* field = place.field;
    const Reflection& reflection = *message->GetReflection();
    const auto put = [&](auto one, auto of_list, auto value) {
      if (index < 0) {
        (reflection.*one)(message, field, value);
      } else {
        (reflection.*of_list)(message, field, index, value);
      }
    };
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return put(&Reflection::SetInt32, &Reflection::SetRepeatedInt32,
                   static_cast<std::int32_t>(number()));
      case FieldDescriptor::CPPTYPE_INT64:
        return put(&Reflection::SetInt64, &Reflection::SetRepeatedInt64, number());
      case FieldDescriptor::CPPTYPE_UINT32:
        return put(&Reflection::SetUInt32, &Reflection::SetRepeatedUInt32,
                   static_cast<std::uint32_t>(number()));
      case FieldDescriptor::CPPTYPE_UINT64:
        return put(&Reflection::SetUInt64, &Reflection::SetRepeatedUInt64,
                   static_cast<std::uint64_t>(number()));
      case FieldDescriptor::CPPTYPE_FLOAT:
        return put(&Reflection::SetFloat, &Reflection::SetRepeatedFloat,
                   static_cast<float>(real()));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return put(&Reflection::SetDouble, &Reflection::SetRepeatedDouble, real());
      case FieldDescriptor::CPPTYPE_BOOL:
        return put(&Reflection::SetBool, &Reflection::SetRepeatedBool, below(2) == 0);
      case FieldDescriptor::CPPTYPE_ENUM: {
        const auto* type = field->enum_type();
        const int at = static_cast<int>(below(static_cast<std::size_t>(type->value_count())));
        return put(&Reflection::SetEnumValue, &Reflection::SetRepeatedEnumValue,
                   type->value(at)->number());
      }
      case FieldDescriptor::CPPTYPE_STRING: {
        const std::string value = text();
        if (index < 0) return reflection.SetString(message, field, value);
        return reflection.SetRepeatedString(message, field, index, value);
      }
      case FieldDescriptor::CPPTYPE_MESSAGE: {
        const std::unique_ptr<Message> other = copy_of_any(field);
        (index < 0 ? reflection.MutableMessage(message, field)
                   : reflection.MutableRepeatedMessage(message, field, index))
            ->CopyFrom(*other);
        return;
      }
    }
  }

  // A message of this type, where there is one, or an empty one. Taken before anything changes: to
  // set one of several fields frees the others.
  std::unique_ptr<Message> copy_of_any(const FieldDescriptor* field) {
    std::vector<const Message*> known;
    for (const Message* message : messages_) {
      if (message->GetDescriptor() == field->message_type()) known.push_back(message);
    }
    auto* factory = google::protobuf::MessageFactory::generated_factory();
    std::unique_ptr<Message> copy(factory->GetPrototype(field->message_type())->New());
    if (!known.empty()) copy->CopyFrom(*pick(known));
    return copy;
  }

  std::int64_t number() {
    constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
    static constexpr std::int64_t kNumbers[] = {-1,
                                                0,
                                                1,
                                                2,
                                                3,
                                                4,
                                                5,
                                                6,
                                                7,
                                                8,
                                                9,
                                                10,
                                                11,
                                                16,
                                                17,
                                                32,
                                                64,
                                                100,
                                                1024,
                                                65536,
                                                1 << 20,
                                                1 << 30,
                                                -2,
                                                -3,
                                                -4,
                                                -100,
                                                2147483647,
                                                -2147483647 - 1,
                                                1LL << 32,
                                                1LL << 33,
                                                1LL << 40,
                                                1LL << 60,
                                                kLargest,
                                                kLargest - 1,
                                                -kLargest - 1};
    return pick(kNumbers);
  }

  double real() {
    static constexpr double kReals[] = {0,
                                        1,
                                        -1,
                                        0.5,
                                        2,
                                        1e-30,
                                        1e30,
                                        -1e9,
                                        1e19,
                                        4294967296.0,
                                        std::numeric_limits<double>::infinity(),
                                        -std::numeric_limits<double>::infinity(),
                                        std::numeric_limits<double>::quiet_NaN()};
    return pick(kReals);
  }

  std::string text() {
    static const char* const kTexts[] = {"",           "x",
                                         "n",          "0",
                                         "-1",         "9223372036854775807",
                                         "a,b->c",     "NOTSET",
                                         "SAME_UPPER", "linear",
                                         "\xff",       "\xc3\xa9",
                                         "a*b",        "part(t,4,rank.cp)",
                                         "a b/c.d:0",  "../x"};
    std::string value;
    if (!texts_.empty() && below(4) != 0) {
      value = pick(texts_);
    } else {
      value = pick(kTexts);
    }
    if (value.empty() || below(3) != 0) return value;
    switch (below(3)) {  // raw contents are texts, too
      case 0: value[below(value.size())] = static_cast<char>(below(256)); break;
      case 1: value.resize(below(value.size()) + 1); break;
      default: value += value.substr(below(value.size())); break;
    }
    return value;
  }

  std::mt19937& random_;
  std::vector<Place> places_;
  std::vector<const Message*> messages_;
  std::vector<std::string> texts_;
};

}  // namespace

void mutate_message(Message* message, std::mt19937& random) { Mutator(message, random).mutate(); }

}  // namespace tutti::fuzz
